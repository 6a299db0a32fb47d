# The reference node: poller, election, API and worker of intents. "make docker" builds the program and the context.
FROM scratch
# The program, licences, and for rediss:// the authorities that the building machine trusts (/etc/ssl/certs/ca-certificates.crt).
# Another authority: mount its bundle over that file, or name it in SSL_CERT_FILE. Files come first: what the legacy builder adds
# to them keeps their architecture.
COPY root/ /
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="leasestorm node" \
      org.opencontainers.image.description="Shares work through leases on Redis, so that none is done twice" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/leasestorm/leasestorm" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# By number: orchestrators cannot see that a name is not root.
USER 65532:65532
# Where the health check asks. Probes from outside the container need 0.0.0.0:9480.
ENV LEASESTORM_HEALTH_ADDR=127.0.0.1:9480
HEALTHCHECK --interval=5s --timeout=6s --start-period=10s --retries=3 CMD ["/node", "health"]
ENTRYPOINT ["/node"]
