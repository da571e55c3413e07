"""The series of a run over steps and time, in bounded memory; how fast ranks are."""
