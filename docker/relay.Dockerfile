# outbox-relay: one static program and the certificate authorities it trusts; no shell, no libraries. Build from the repository's root:
#   docker build --file docker/relay.Dockerfile --build-arg OUTBOX_COMMIT="$(git rev-parse HEAD)" --tag outbox-relay:0.3.0 .
ARG RUST=docker.io/library/rust:1.95-slim-bookworm

FROM ${RUST} AS build
WORKDIR /src
COPY . .
ARG OUTBOX_COMMIT
# glibc linked in. It resolves names by /etc/hosts and DNS by itself, which is all that a container has. What a backtrace takes its line numbers
# from is compressed: 28 MB instead of 72.
ENV RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,--compress-debug-sections=zlib"
RUN target=$(rustc --print host-tuple) \
    && cargo build --release --locked --package outbox-relay --features otel --target "$target" \
    && install -D "target/$target/release/outbox-relay" /out/usr/local/bin/outbox-relay \
    && install -D --mode=644 /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt \
    && echo "nonroot:x:65532:65532:nonroot:/:/sbin/nologin" >/out/etc/passwd \
    && echo "nonroot:x:65532:" >/out/etc/group

FROM scratch
COPY --from=build /out/ /
# By number, so that Kubernetes can see that it is not root.
USER 65532:65532
# SIGTERM, Docker's default, drains: give it longer than OUTBOX_RELAY_SHUTDOWN_TIMEOUT (25 s) before SIGKILL.
ENTRYPOINT ["/usr/local/bin/outbox-relay"]
CMD ["run"]
