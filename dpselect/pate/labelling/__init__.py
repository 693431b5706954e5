"""Label rounds of votes batch by batch, so that an interruption costs neither a second charge nor a second answer."""
