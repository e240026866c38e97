"""p(x | z, ..): paper (W and z through trunks), linked (K g(A W / K)) and placed (softmax over sites)."""

from compvae.config import ModelConfig
from compvae.decoder.base import Decoder
from compvae.decoder.linked import LinkedDecoder
from compvae.decoder.paper import PaperDecoder
from compvae.decoder.placed import PlacedDecoder

__all__ = ["Decoder", "build_decoder"]

DECODERS: dict[str, type[Decoder]] = {"paper": PaperDecoder, "linked": LinkedDecoder, "placed": PlacedDecoder}


def build_decoder(config: ModelConfig) -> Decoder:
    """The decoder that the configuration names."""
    return DECODERS[config.decoder.kind](config)
