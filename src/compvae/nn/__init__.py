"""Networks: residual block, graph block, and trunks to and from x."""
