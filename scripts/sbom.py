"""A bill of materials: compvae and every package it needs, as installed here, with versions and licences (CycloneDX).

python scripts/sbom.py --out dist/compvae.cdx.json --extras serve,report
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OUR = "compvae"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--extras", default="", help="extras of compvae to take in, such as serve,report")
    args = arguments.parse_args()
    document = bill({extra for extra in args.extras.split(",") if extra})
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    print(f"{len(document['components'])} packages in {args.out}")  # type: ignore[arg-type]


def bill(extras: set[str]) -> dict[str, object]:
    """The document; the same installation gives the same bytes."""
    found = installed(extras)
    needs = {name: {other for other, _ in needed(one, extras if name == OUR else set())} for name, one in found.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(found[OUR]), "type": "application"}},
        "components": [component(found[name]) for name in sorted(found) if name != OUR],
        "dependencies": [
            {"ref": ref(found[n]), "dependsOn": [ref(found[m]) for m in sorted(needs[n])]} for n in sorted(found)
        ],
    }


def installed(extras: set[str]) -> dict[str, Distribution]:
    """compvae and all that it needs, by canonical name; what a marker or an absent extra leaves out is not there."""
    found: dict[str, Distribution] = {OUR: distribution(OUR)}
    waiting = [(OUR, extras)]
    while waiting:
        name, asked = waiting.pop()
        for other, more in needed(found[name], asked):
            if other not in found:
                try:
                    found[other] = distribution(other)
                except PackageNotFoundError:
                    raise SystemExit(f"sbom: {name} needs {other}, which is not installed here") from None
                waiting.append((other, more))
    return found


def needed(one: Distribution, extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    """What a package needs on this machine, with these extras: names, and extras of these."""
    for text in one.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name), requirement.extras


def component(one: Distribution) -> dict[str, object]:
    """A package: name, version, licence as it says itself."""
    about = one.metadata
    said = [about[field] for field in ("License-Expression", "License") if field in about]
    licence = said[0].split("\n")[0][:100] if said else ""
    described: dict[str, object] = {
        "type": "library",
        "bom-ref": ref(one),
        "name": about["Name"],
        "version": one.version,
        "purl": ref(one),
    }
    return {**described, **({"licenses": [{"license": {"name": licence}}]} if licence else {})}


def ref(one: Distribution) -> str:
    """The package's URL in the sense of purl."""
    return f"pkg:pypi/{canonicalize_name(one.metadata['Name'])}@{one.version}"


if __name__ == "__main__":
    main()
