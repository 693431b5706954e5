"""What a release asks for, the mechanism that is chosen for it, and its noise, by public numbers alone."""
