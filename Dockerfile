# There are two ways to make an image of the static binary:
#
#   docker build .                                                     builds the binary in a container
#   docker build --target prebuilt --build-arg BINARY=bin/holdfast .   uses a built binary (make image, with bin/licences)
#
# Both images contain the authorities of the machine that builds them, without which no bucket at https can be reached.
#
# The first needs BuildKit, Docker's default builder: the old one (DOCKER_BUILDKIT=0, or without buildx) makes every
# stage above the last one too, and these need bin/ (make image). The stage prebuilt comes first, so that the old
# builder needs no base image for it. kops starts the links /ko-app/etcd-manager and /go-runner, and the binary acts by
# the name of the link.
#
#   docker build --target kops --build-arg BINARY=bin/holdfast .       is for kops' manifest (make image-kops)
#
# The image for kops runs as root, because it mounts volumes, and has the programs that make and check filesystems. See
# deploy/kops.
#
# Otherwise the node runs as an unprivileged user (65532), and needs no capability. That user must own the mount at
# /var/lib/holdfast; the node makes its private data directory there. A node that mounts EBS volumes runs on the host.

FROM scratch AS prebuilt
ARG BINARY=bin/holdfast
COPY ${BINARY} /holdfast
COPY bin/links /
COPY bin/licences /licences
COPY bin/ca-certificates.crt /etc/ssl/certs/
COPY --chown=65532:65532 bin/state /var/lib/holdfast
VOLUME /var/lib/holdfast
ENV HOLDFAST_NODE_DATA_DIR=/var/lib/holdfast/data STATE_DIRECTORY=/var/lib/holdfast
USER 65532:65532
ENTRYPOINT ["/holdfast"]
CMD ["run"]

FROM debian:trixie-slim AS kops
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates e2fsprogs mount util-linux xfsprogs && \
    rm -rf /var/lib/apt/lists/*
ARG BINARY=bin/holdfast
COPY ${BINARY} /holdfast
COPY bin/links /
COPY bin/licences /licences
ENTRYPOINT ["/holdfast"]
CMD ["run"]

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -pgo=deploy/cpu.pgo -trimpath -buildvcs=false -ldflags "-s -w -X holdfast/cmd.version=${VERSION}" -o /holdfast ./cmd/holdfast && mkdir -m 0700 /state && deploy/licences.sh /licences && deploy/links.sh /links

FROM scratch
COPY --from=build /holdfast /holdfast
COPY --from=build /links /
COPY --from=build /licences /licences
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /state /var/lib/holdfast
VOLUME /var/lib/holdfast
ENV HOLDFAST_NODE_DATA_DIR=/var/lib/holdfast/data STATE_DIRECTORY=/var/lib/holdfast
USER 65532:65532
ENTRYPOINT ["/holdfast"]
CMD ["run"]
