"""Training: schedules as pure functions of the step, one step, the loop, checkpoints, processes, a run's directory."""
