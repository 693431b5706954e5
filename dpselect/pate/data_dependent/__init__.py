"""What labels cost on the votes that were cast, and what of it may be published."""
