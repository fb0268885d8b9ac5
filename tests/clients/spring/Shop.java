package shop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.PersistenceContext;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.net.URI;
import java.util.Map;
import java.util.UUID;
import javax.sql.DataSource;
import org.hibernate.annotations.Immutable;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.annotations.UuidGenerator;
import org.hibernate.type.SqlTypes;
import org.junit.jupiter.api.Test;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.data.jpa.repository.config.EnableJpaRepositories;
import org.springframework.data.repository.CrudRepository;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.orm.jpa.LocalContainerEntityManagerFactoryBean;
import org.springframework.orm.jpa.vendor.HibernateJpaVendorAdapter;
import org.springframework.stereotype.Service;
import org.springframework.test.context.junit.jupiter.SpringJUnitConfig;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

@Entity
@Table(name = "orders")
class Order {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    String customer;
    BigDecimal total;

    Order() {}

    Order(String customer, BigDecimal total) {
        this.customer = customer;
        this.total = total;
    }
}

/** The columns that an application may write; the others are the relay's, and have defaults. */
@Entity
@Immutable // otherwise Hibernate may find the JSON changed, and send an UPDATE, which no application may
@Table(schema = "outbox", name = "events")
class Event {
    // Made here: a role that cannot read the table cannot ask for RETURNING. As it is null before, save() does not look
    // for a row of that id, which such a role could not either.
    @Id
    @UuidGenerator(style = UuidGenerator.Style.VERSION_7)
    UUID id;

    String topic;
    String aggregateType;
    String aggregateId;

    @JdbcTypeCode(SqlTypes.JSON)
    Map<String, Object> payload;

    Event() {}

    /** Events of one key (type and id of the aggregate) keep their order. */
    Event(String topic, String aggregateType, String aggregateId, Map<String, Object> payload) {
        this.topic = topic;
        this.aggregateType = aggregateType;
        this.aggregateId = aggregateId;
        this.payload = payload;
    }
}

interface Orders extends CrudRepository<Order, Long> {}

interface Events extends CrudRepository<Event, UUID> {}

/** Places an order and saves an event about it, in Spring's transaction. Spring Data JPA, Hibernate. */
@Service
class Shop {
    private final Orders orders;
    private final Events events;

    Shop(Orders orders, Events events) {
        this.orders = orders;
        this.events = events;
    }

    @Transactional
    public UUID place(String customer, BigDecimal total) {
        Order order = orders.save(new Order(customer, total)); // IDENTITY: the order has its id now
        // A total is text: a JSON number is a double to many a parser.
        Map<String, Object> payload = Map.of("id", order.id, "customer", customer, "total", total.toPlainString());
        return events.save(new Event("orders.created", "order", order.id.toString(), payload)).id;
    }

    public static void main(String[] arguments) {
        try (var context = new AnnotationConfigApplicationContext(Config.class)) {
            Shop shop = context.getBean(Shop.class);
            System.out.println(shop.place("Ada", new BigDecimal("42.50")));

            var transaction = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
            transaction.executeWithoutResult(status -> {
                shop.place("Bob", new BigDecimal("13.00"));
                status.setRollbackOnly(); // so does an exception: neither the order nor its event remains
            });
        }
    }
}

/** The role of DATABASE_URL may read events here: outbox.grant_operate(). */
@SpringJUnitConfig(Config.class)
@Transactional // each test is rolled back: no relay ever sees its events
class ShopTest {
    @Autowired
    Shop shop;

    @PersistenceContext
    EntityManager entities;

    @Test
    void aPlacedOrderIsEmitted() {
        UUID id = shop.place("Eve", new BigDecimal("7.00"));

        // The query flushes. created_at is the start of the transaction: these are the events of this one.
        Object[] emitted = (Object[]) entities.createNativeQuery("""
            SELECT e.id, topic, aggregate_type, payload ->> 'customer', payload ->> 'total'
            FROM outbox.events AS e JOIN orders AS o ON e.aggregate_id = o.id::text
            WHERE created_at = now()""").getSingleResult();
        assertArrayEquals(new Object[] {id, "orders.created", "order", "Eve", "7.00"}, emitted);
    }
}

/** What Spring Boot configures by itself. */
@Configuration(proxyBeanMethods = false)
@EnableJpaRepositories
@EnableTransactionManagement
@Import(Shop.class)
class Config {
    @Bean
    DataSource dataSource() {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        var source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath());
        source.setUser(login[0]);
        source.setPassword(login[1]);
        return source;
    }

    @Bean
    LocalContainerEntityManagerFactoryBean entityManagerFactory(DataSource source) {
        var factory = new LocalContainerEntityManagerFactoryBean();
        factory.setDataSource(source);
        factory.setPackagesToScan("shop");
        factory.setJpaVendorAdapter(new HibernateJpaVendorAdapter());
        // Boot's CamelCaseToUnderscoresNamingStrategy: aggregateType is aggregate_type.
        factory.getJpaPropertyMap().put("hibernate.physical_naming_strategy",
            "org.hibernate.boot.model.naming.PhysicalNamingStrategySnakeCaseImpl");
        return factory;
    }

    @Bean
    PlatformTransactionManager transactionManager(EntityManagerFactory factory) {
        return new JpaTransactionManager(factory);
    }
}
