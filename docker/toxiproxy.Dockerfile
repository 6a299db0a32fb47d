# The server of toxiproxy in the version of go.mod: a network between nodes and Redis that can be broken by HTTP (port 8474).
FROM scratch
# Files come first: what the legacy builder adds to them keeps their architecture.
COPY root/ /
ARG VERSION=unknown
LABEL org.opencontainers.image.title="toxiproxy" \
      org.opencontainers.image.description="A TCP proxy to simulate network conditions, built for leasestorm's fleet" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="https://github.com/Shopify/toxiproxy" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
EXPOSE 8474
ENTRYPOINT ["/toxiproxy"]
CMD ["-host", "0.0.0.0"]
