"""What panels and the run screen are made of: base classes, and the parts above the panels."""
