"""The playground: a page and an API over the models, safe to leave running."""
