# Two ways to an image of one static binary:
#
#   docker build .                                                        builds it in a container
#   docker build --target prebuilt --build-arg BINARY=bin/holdfast .      takes one that is built (make image, which collects bin/licences, too)
#
# The prebuilt stage comes first so that an old builder, too, needs no base image for it. /ko-app/etcd-manager and
# /go-runner are links to the binary, which is what they are called then: kops starts them.
#
#   docker build --target kops --build-arg BINARY=bin/holdfast .          the one that kops' manifest takes (make image-kops)
#
# It runs as root, for it mounts volumes, and has the programs that make and check filesystems. See deploy/kops.
#
# The node is nobody in particular (65532) and needs no capability. What is mounted at /var/lib/holdfast must be that user's;
# the data directory in it is made by the node, for itself alone. A node that mounts EBS volumes runs on the host.

FROM scratch AS prebuilt
ARG BINARY=bin/holdfast
COPY ${BINARY} /holdfast
COPY bin/links /
COPY bin/licences /licences
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
COPY --from=build --chown=65532:65532 /state /var/lib/holdfast
VOLUME /var/lib/holdfast
ENV HOLDFAST_NODE_DATA_DIR=/var/lib/holdfast/data STATE_DIRECTORY=/var/lib/holdfast
USER 65532:65532
ENTRYPOINT ["/holdfast"]
CMD ["run"]
