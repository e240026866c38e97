"""How good a model is on wholes that training has not seen, beside yardsticks, in words and in numbers."""
