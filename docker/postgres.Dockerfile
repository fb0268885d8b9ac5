# Two images of the extension `outbox`. Build from the repository's root:
#
# The official PostgreSQL image with the extension:
#   docker build --file docker/postgres.Dockerfile --build-arg PG_MAJOR=17 --tag postgres-outbox:17 .
#
# Its files alone, for CloudNativePG's image volumes (PostgreSQL 18; packaging/kubernetes/cloudnative-pg.yaml):
#   docker build --file docker/postgres.Dockerfile --build-arg PG_MAJOR=18 --target extension --tag outbox-extension:0.3.0-18 .
ARG PG_MAJOR=17
ARG RUST=docker.io/library/rust:1.95-slim-bookworm
ARG BASE=docker.io/library/postgres:${PG_MAJOR}-bookworm

FROM ${RUST} AS rust
# Bindings to PostgreSQL's headers are written by it, and the image has the minimal profile.
RUN command -v rustfmt || rustup component add rustfmt

FROM ${BASE} AS build
ARG PG_MAJOR
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev libclang-dev postgresql-server-dev-${PG_MAJOR}
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
WORKDIR /src
COPY . .
RUN scripts/install-extension /usr/lib/postgresql/${PG_MAJOR}/bin/pg_config /out

FROM scratch AS extension
ARG PG_MAJOR
COPY --from=build /out/usr/lib/postgresql/${PG_MAJOR}/lib/ /lib/
COPY --from=build /out/usr/share/postgresql/${PG_MAJOR}/extension/ /share/extension/

FROM ${BASE}
COPY --from=build /out/ /
COPY docker/initdb.sh /docker-entrypoint-initdb.d/outbox.sh
CMD ["postgres", "-c", "wal_level=logical"]
