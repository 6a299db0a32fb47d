package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const (
	dumpFile  = "dump.rdb"
	savedFile = "saved.rdb"
)

// save saves the server's data for reload, under a name that a later synchronization with a master does not overwrite.
func (m *member) save(ctx context.Context) error {
	if err := m.client.Load().Save(ctx).Err(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(m.dir, dumpFile), filepath.Join(m.dir, savedFile))
}

// reload starts a killed server from its saved dump, without an append-only file: only a dump has the replication offset.
func (m *member) reload(ctx context.Context) error {
	if err := m.erase(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(m.dir, savedFile), filepath.Join(m.dir, dumpFile)); err != nil {
		return err
	}
	return m.start(ctx, "--appendonly", "no")
}

func (m *member) appendAgain(ctx context.Context) error {
	c := m.client.Load()
	if err := c.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		return err
	}
	if err := awaitFile(ctx, c); err != nil {
		return fmt.Errorf("%s does not append to its file: %w", m.name, err)
	}
	return nil
}
