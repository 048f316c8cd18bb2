"""Program generators and helpers for tests, benchmarks and users who test their own passes."""
