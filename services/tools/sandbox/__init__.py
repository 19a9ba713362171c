"""Where the code of tools runs: apart from every service, bounded, and gone when it has ended."""
