"""The program of a Job beside a home: `python -m codehub.job archive|restore`."""
