"""Read steps and metrics out of what training programs print: about seventy formats, which are data
in `known/`, each with samples of its lines. Pure: text in, readings out."""
