# What `rails db:migrate` does with the folder of migrations.
require "active_record"

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
ActiveRecord::MigrationContext.new("migrate", ActiveRecord::SchemaMigration).migrate
