"""The one form of a whole agent, and the plans that make agents as it says."""
