package main

import (
	"math"
	"slices"
	"time"
)

// metric is what a figure says.
type metric string

const (
	perSecond  metric = "per_second"
	median     metric = "median_us"
	p99        metric = "p99_us"
	etcdCPU    metric = "etcd_cpu_us" // an operation
	serviceCPU metric = "service_cpu_us"
	loadCPU    metric = "load_cpu_us"

	serviceMemory metric = "service_kib_a_waiter"
	etcdMemory    metric = "etcd_kib_a_waiter"        // at each member
	serviceRest   metric = "service_rest_cpu_percent" // of a core
	etcdRest      metric = "etcd_rest_cpu_percent"

	earliest metric = "earliest_grant_s" // after the dead holder's last renewal
	latest   metric = "latest_grant_s"
)

// figures are those of one system on one workload. One that could not be measured is absent.
type figures map[metric]float64

// sample is what one slice told.
type sample struct {
	figures figures
	done    int
	failures
}

// failures are operations that failed. They are never among those done.
type failures struct {
	failed int
	first  error
}

func (f *failures) add(err error) {
	if f.failed == 0 {
		f.first = err
	}
	f.failed++
}

func (f *failures) merge(more failures) {
	if f.failed == 0 {
		f.first = more.first
	}
	f.failed += more.failed
}

// rates are the figures of operations that took times, within a span and with a usage.
func rates(times []time.Duration, span time.Duration, used usage) figures {
	f := figures{}
	if len(times) == 0 {
		return f
	}
	slices.Sort(times)
	f[perSecond] = float64(len(times)) / span.Seconds()
	f[median], f[p99] = micros(percentile(times, 50)), micros(percentile(times, 99))
	if used.known {
		each := func(d time.Duration) float64 { return micros(d) / float64(len(times)) }
		f[etcdCPU], f[loadCPU] = each(used.etcd), each(used.load)
		if used.served {
			f[serviceCPU] = each(used.service)
		}
	}
	return f
}

// percentile of sorted times, by nearest rank: at least p percent of them are no longer.
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// middle is the median of values, for an even number the mean of the two in the middle.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// overRounds is the median of each figure.
func overRounds(rounds []figures) figures {
	all := map[metric][]float64{}
	for _, f := range rounds {
		for m, v := range f {
			all[m] = append(all[m], v)
		}
	}
	f := figures{}
	for m, values := range all {
		f[m] = middle(values)
	}
	return f
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
