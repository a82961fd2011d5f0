package main

import (
	"time"

	"github.com/latchkey/latchkey/server"
)

// Bounds of the limits.
const (
	mostRate     = 1_000_000
	mostOfOne    = 1_000_000
	mostBody     = 1 << 20
	leastBody    = 8 << 10 // the longest of everything that a claim may have fits
	leastHold    = time.Minute
	mostHold     = 365 * 24 * time.Hour
	leastArrival = time.Second
	mostArrival  = 10 * time.Minute
)

// limitFlags bound what one may have, so that nobody drowns the rest.
type limitFlags struct {
	RatePerPrincipal number `default:"1000" placeholder:"NUMBER" group:"limits" help:"Requests a second that each principal may send to this replica, with as many at once after a pause: 0 to ${rate}, 0 for any number (default: ${default}). Renewals and releases have five times as much for themselves. More are refused with 429."`
	RatePerAddress   number `default:"0" placeholder:"NUMBER" group:"limits" help:"The same of each address, before it is known who sends: 0 to ${rate} (default: ${default}, any number). Behind a balancer all have its address."`

	MaxClaimsPerPrincipal  number `default:"10000" placeholder:"NUMBER" group:"limits" help:"Claims that each principal may have, through all replicas: 0 to ${of_one}, 0 for any number (default: ${default}). More are refused with 429. The replicas tell each other within three seconds: what is taken through the others meanwhile comes on top. Give all replicas the same."`
	MaxLeasesPerPrincipal  number `default:"1000" placeholder:"NUMBER" group:"limits" help:"The same of leases of its own (default: ${default})."`
	MaxWaitersPerPrincipal number `default:"2000" placeholder:"NUMBER" group:"limits" help:"Requests of each principal that may wait at this replica for a lock, in the same way (default: ${default})."`
	MaxStreamsPerPrincipal number `default:"2000" placeholder:"NUMBER" group:"limits" help:"Event streams of each principal at this replica, in the same way (default: ${default})."`
	MaxStreams             number `default:"20000" placeholder:"NUMBER" group:"limits" help:"Event streams that this replica serves at one time: 0 to ${of_one}, 0 for any number (default: ${default}). More are refused with 503 overloaded."`
	MaxClaimsAtOnce        number `default:"8192" placeholder:"NUMBER" group:"limits" help:"Claims that this replica has on their way to etcd at one time: ${waiters} (default: ${default}). More are refused with 503 overloaded. Releases and renewals go before them."`

	MaxHold duration `default:"0s" placeholder:"DURATION" group:"limits" help:"How long a lock may be renewed after its grant, or a lease after its beginning: ${hold}, or 0 for ever (default: ${default}). Then renewals are refused with 409 max_hold_reached. Give all replicas the same."`

	MaxConnsPerAddress number   `name:"max-connections-per-address" default:"0" placeholder:"NUMBER" group:"limits" help:"Connections that one address may have open, 64 bits of an IPv6 one: 0 to ${connections_most}, 0 for any number (default: ${default}). One more is closed at once."`
	MaxBody            number   `default:"65536" placeholder:"BYTES" group:"limits" help:"The longest body of a request: ${body} bytes (default: ${default}). More is refused with 413."`
	MaxHeader          number   `default:"32768" placeholder:"BYTES" group:"limits" help:"The longest header of a request, its URL among it: ${header} bytes (default: ${default}). More is refused with 431."`
	HeaderTimeout      duration `default:"10s" placeholder:"DURATION" group:"limits" help:"How long the header of a request may take to arrive, and the TLS handshake before it: ${arrival} (default: ${default})."`
	BodyTimeout        duration `default:"10s" placeholder:"DURATION" group:"limits" help:"How long its body may take: ${arrival} (default: ${default})."`
}

func (f *limitFlags) check(bad *faults) {
	f.RatePerPrincipal.within(bad, "rate-per-principal", 0, mostRate)
	f.RatePerAddress.within(bad, "rate-per-address", 0, mostRate)
	f.MaxClaimsPerPrincipal.within(bad, "max-claims-per-principal", 0, mostOfOne)
	f.MaxLeasesPerPrincipal.within(bad, "max-leases-per-principal", 0, mostOfOne)
	f.MaxWaitersPerPrincipal.within(bad, "max-waiters-per-principal", 0, mostOfOne)
	f.MaxStreamsPerPrincipal.within(bad, "max-streams-per-principal", 0, mostOfOne)
	f.MaxStreams.within(bad, "max-streams", 0, mostOfOne)
	f.MaxClaimsAtOnce.within(bad, "max-claims-at-once", 1, mostWaiters)
	if f.MaxHold.err != nil || f.MaxHold.Duration != 0 {
		f.MaxHold.seconds(bad, "max-hold", leastHold, mostHold)
	}
	f.MaxConnsPerAddress.within(bad, "max-connections-per-address", 0, mostConnections)
	f.MaxBody.within(bad, "max-body", leastBody, mostBody)
	f.MaxHeader.within(bad, "max-header", server.LeastHeaderBytes, server.MostHeaderBytes)
	f.HeaderTimeout.within(bad, "header-timeout", leastArrival, mostArrival)
	f.BodyTimeout.within(bad, "body-timeout", leastArrival, mostArrival)
}

func (f *limitFlags) limits() server.Limits {
	return server.Limits{
		RatePerPrincipal: f.RatePerPrincipal.int, RatePerAddress: f.RatePerAddress.int,
		ClaimsPerPrincipal: f.MaxClaimsPerPrincipal.int, LeasesPerPrincipal: f.MaxLeasesPerPrincipal.int,
		WaitersPerPrincipal: f.MaxWaitersPerPrincipal.int, StreamsPerPrincipal: f.MaxStreamsPerPrincipal.int,
		Streams: f.MaxStreams.int,
	}
}
