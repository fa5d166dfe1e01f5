"""What has been seen, as part of the distribution."""
