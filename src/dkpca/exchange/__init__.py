"""The rounds of the protocol, and the transports that carry them on one machine or as files."""
