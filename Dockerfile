# The command line errand in one image: errand gateway, web, doctor, migrate and the others.
#
#   docker build -t errand --build-arg VERSION=v0.1.0 .
#   docker run --rm -e DATABASE_URL errand doctor
#
# It has no shell, runs as no one, and has the time zones and the roots of TLS.
ARG GO=golang:1.26
FROM ${GO} AS build
ARG VERSION=(devel)
WORKDIR /errand
COPY . .
RUN cd cmd/errand && CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false \
	go build -trimpath -tags timetzdata -ldflags "-s -w -X 'main.release=${VERSION}'" -o /bin/errand .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /bin/errand /bin/errand
USER 65532:65532
ENTRYPOINT ["/bin/errand"]
