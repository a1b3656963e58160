"""The phases of half_hour, and what they share."""
