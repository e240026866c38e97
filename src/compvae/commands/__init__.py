"""The commands that use a model, each a thin function over the package."""
