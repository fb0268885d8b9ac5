# outbox-relay: the program, the machine's certificate authorities, and no shell. Build from the repository's root:
#   docker build --file docker/relay.Dockerfile --tag outbox-relay .
ARG RUST=docker.io/library/rust:1.95-slim-bookworm
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST} AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package outbox-relay

FROM ${BASE}
COPY --from=build /src/target/release/outbox-relay /usr/local/bin/outbox-relay
# By number, so that Kubernetes can see that it is not root; distroless calls it nonroot.
USER 65532:65532
# SIGTERM, Docker's default, drains: give it longer than OUTBOX_RELAY_SHUTDOWN_TIMEOUT (25 s) before SIGKILL.
ENTRYPOINT ["/usr/local/bin/outbox-relay"]
CMD ["run"]
