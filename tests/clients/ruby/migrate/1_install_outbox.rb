# The script that `make sql` writes, which a project keeps beside its migrations.
class InstallOutbox < ActiveRecord::Migration[6.1]
  def up
    execute File.read(ENV.fetch("OUTBOX_SQL"))
  end
end
