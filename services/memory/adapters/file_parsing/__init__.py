"""Files as text: a program of its own reads each, in bounds; and what starts it."""
