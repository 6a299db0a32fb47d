//go:build !linux

package container

import (
	"context"
	"fmt"
)

// Firewall is what no container has elsewhere than on Linux.
type Firewall struct{}

// Firewall returns ErrRights.
func (c *Container) Firewall(context.Context) (*Firewall, error) {
	return nil, fmt.Errorf("%w: %s: this program runs on another system than its containers", ErrRights, c.name)
}

// Close does nothing.
func (*Firewall) Close() error { return nil }

// Set returns ErrRights.
func (*Firewall) Set(...Block) error { return ErrRights }
