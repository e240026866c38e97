"""Transport: an invertible CompVAE.  W = sum_i w_i + w_0 + (sum_i B_{l_i}) z is Gaussian, and x = map(W; composition).

In import order: config (what is chosen), link (y = T(x)), gaussian (terms that add up, and their posterior), base and
expectation (W given counts of kinds, by EM), part_network and placed (W given parts with continuous attributes), given
(either, behind one interface), field, convolution and flow (the map), network (all of it together), structure and
places (what data shows: link, growth, factors; which attributes are places), editing and placed_editing (edits).
"""
