// Copyright (c) 2026, the gpu.node authors
// SPDX-License-Identifier: Apache-2.0

// Gives random cases to the genuine allocator of Kubernetes and prints its answers, a line a case: a text for each
// pod, "-" where it gets nothing, "!" where the allocator gives up on it.
//
// answers-VERSION.txt was recorded with Kubernetes VERSION in the root of its sources, into whose tree this file is laid
// without writing to it. That of 1.36.2 has no cases with other nodes beside, which are the later 200.
//
//	echo '{"Replace": {"'$PWD'/cmd/recorder/main.go": "'$HERE'/recorder.go"}}' > overlay.json
//	go build -mod=vendor -overlay overlay.json -o recorder ./cmd/recorder
//	python $HERE/../random_claims.py 0 600 | ./recorder > $HERE/answers-VERSION.txt
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type scenario struct {
	Slices    []*resourceapi.ResourceSlice   `json:"slices"`
	Classes   []*resourceapi.DeviceClass     `json:"classes"`
	Node      *v1.Node                       `json:"node"`
	Allocated []*resourceapi.ResourceClaim   `json:"allocated"`
	Pods      [][]*resourceapi.ResourceClaim `json:"pods"`
}

type lister struct{ classes []*resourceapi.DeviceClass }

func (l lister) List() ([]*resourceapi.DeviceClass, error) { return l.classes, nil }
func (l lister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range l.classes {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, name)
}

var features = structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true, ConsumableCapacity: true}

func add(state structured.AllocatedState, r resourceapi.DeviceRequestAllocationResult) {
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	if r.ShareID == nil {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
	if r.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	}
}

func run(s scenario, cache *cel.Cache) []string {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, c := range s.Allocated {
		for _, r := range c.Status.Allocation.Devices.Results {
			add(state, r)
		}
	}
	if s.Node == nil {
		s.Node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	}
	out := []string{}
	for _, claims := range s.Pods {
		a, err := structured.NewAllocator(context.Background(), features, state, lister{s.Classes}, s.Slices, cache)
		if err != nil {
			out = append(out, "!")
			continue
		}
		results, err := a.Allocate(context.Background(), s.Node, claims)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			out = append(out, "-") // a pool that is not valid bars this node alone
		case err != nil:
			out = append(out, "!")
		case len(results) != len(claims):
			out = append(out, "-")
		default:
			out = append(out, given(state, results))
		}
	}
	return out
}

// given commits results and returns them as text: r0=gpu-0-share:cores,memory,shares r1=gpu-1|second claim.
func given(state structured.AllocatedState, results []resourceapi.AllocationResult) string {
	claims := []string{}
	for _, result := range results {
		devices := []string{}
		for _, r := range result.Devices.Results {
			add(state, r)
			names := []string{}
			for name := range r.ConsumedCapacity {
				names = append(names, string(name))
			}
			sort.Strings(names)
			amounts := []string{}
			for _, name := range names {
				q := r.ConsumedCapacity[resourceapi.QualifiedName(name)]
				amounts = append(amounts, strconv.FormatInt(q.Value(), 10))
			}
			text := r.Request + "=" + r.Device
			if len(amounts) > 0 {
				text += ":" + strings.Join(amounts, ",")
			}
			devices = append(devices, text)
		}
		claims = append(claims, strings.Join(devices, " "))
	}
	return strings.Join(claims, "|")
}

func main() {
	cache := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<28)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for in.Scan() {
		var s scenario
		if err := json.Unmarshal(in.Bytes(), &s); err != nil {
			panic(err)
		}
		fmt.Fprintln(w, strings.Join(run(s, cache), ";"))
	}
}
