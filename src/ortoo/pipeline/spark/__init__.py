"""What Spark itself needs: Java, the right Python, a session."""
