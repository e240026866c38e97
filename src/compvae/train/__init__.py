"""Training: schedules as pure functions of the step, and one step."""
