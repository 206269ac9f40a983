"""The ways in from outside: one package a protocol. A door translates and never decides."""
