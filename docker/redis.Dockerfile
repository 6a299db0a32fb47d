# Redis out of this machine's package, for machines that cannot pull an image: redis-server, redis-cli, their shared libraries and
# the loader, and nothing else. "make docker-redis" collects them. It takes the place of the official image: the same command, the
# same user and the same folder.
FROM scratch
# Files come first: what the legacy builder adds to them keeps their architecture.
COPY root/ /
ARG VERSION=unknown
LABEL org.opencontainers.image.title="redis" \
      org.opencontainers.image.description="redis-server of the machine that built this image" \
      org.opencontainers.image.version="${VERSION}"
COPY --chown=999:999 empty/ /data/
USER 999:999
WORKDIR /data
VOLUME /data
ENV PATH=/usr/local/bin:/usr/bin
EXPOSE 6379
# Without protected mode, as in the official image: the network that it is in is private, or it is given a password.
CMD ["redis-server", "--protected-mode", "no"]
