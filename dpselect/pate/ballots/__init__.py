"""What teachers voted, and how it is read and bounded."""
