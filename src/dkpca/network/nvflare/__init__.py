"""Between owners over a network: NVFlare, pinned and hardened, carries the messages of the file route."""
