"""What follows from the state of a run as a whole: stalls, alerts, whom it waits for."""
