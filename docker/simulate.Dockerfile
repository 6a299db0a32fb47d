# The simulator: explorations in virtual time, the judge, and the polled target. "make docker" builds the program and the context.
# It ends by itself or serves a target, whose health check is "simulate target health".
FROM scratch
# Files come first: what the legacy builder adds to them keeps their architecture.
COPY root/ /
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="leasestorm simulate" \
      org.opencontainers.image.description="Breaks a fleet that shares leases on Redis, and judges whether its promises held" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/leasestorm/leasestorm" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 65532:65532
# Everybody may write here: runs are saved in ./reports, and large ones need /tmp for what does not fit in memory.
WORKDIR /work
ENTRYPOINT ["/simulate"]
