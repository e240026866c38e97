"""What is fitted beside the gradient: where training starts, and what is set when it ends."""
