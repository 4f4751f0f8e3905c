"""One launch: arguments in, one or several schedules, results and report out."""
