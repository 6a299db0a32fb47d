#!/bin/sh
# Starts a server of Redis for simulate --store, one of five. It keeps nothing.
exec redis-server --bind 127.0.0.1 --port "$PORT" --dir "$DATA" --save ''
