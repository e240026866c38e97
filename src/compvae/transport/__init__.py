"""Transport: an invertible CompVAE.  W = sum_i w_i + w_0 + (sum_i B_{l_i}) z is Gaussian, and x = map(W; composition).

In import order: config (what is chosen), link (y = T(x)), base (W given the composition, and its posterior),
expectation (EM for the base), field and flow (the map), network (all of it together), structure (which link, which
growth, how many factors).
"""
