"""From parts to wholes and back: draws, posteriors of observed wholes, edits of them."""
