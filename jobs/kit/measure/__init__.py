"""What a real step took: peaks, the allocation stream, the observation. It measures and changes nothing."""
