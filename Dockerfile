# The image of a release, made by goreleaser: the static binaries and nothing else.
FROM scratch
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/holdfast $TARGETPLATFORM/holdfast-stores /
ENTRYPOINT ["/holdfast"]
