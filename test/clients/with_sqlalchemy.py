"""SQLAlchemy with pgvector's types: its Index, the ORM's queries, sync and async engines."""
import asyncio

import client
from client import CLASSES, DIM, K, ok, queries, rows
from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import BigInteger, Index, Integer, cast, create_engine, func, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = 'alchemy'
    id = mapped_column(BigInteger, primary_key=True)
    kind = mapped_column(Integer)
    embedding = mapped_column(VECTOR(DIM))
    __table_args__ = (
        Index('alchemy_idx', 'embedding', postgresql_using='grnnd', postgresql_with={'m': 16, 'ef_construction': 64},
              postgresql_ops={'embedding': 'vector_l2_ops'}),
    )


def main():
    engine = create_engine('postgresql+psycopg:///postgres')
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Item(id=i, kind=client.kinds[i], embedding=row) for i, row in enumerate(rows))
        session.commit()
    # as for hnsw, an index is best made of all rows
    index = next(i for i in Item.__table__.indexes if i.name == 'alchemy_idx')
    index.drop(engine)
    index.create(engine)
    reflected = next(i for i in inspect(engine).get_indexes('alchemy') if i['name'] == 'alchemy_idx')
    ok(reflected['dialect_options'].get('postgresql_using') == 'grnnd', 'reflected', reflected)
    with engine.connect() as conn:
        conn.execution_options(isolation_level='AUTOCOMMIT').execute(text('ANALYZE alchemy'))

    with Session(engine) as session:
        client.recall(lambda q, k: session.scalars(
            select(Item.id).order_by(Item.embedding.l2_distance(q)).limit(k)), '<->', 'ORM')
        client.recall(lambda q, k: [item.id for item, _ in session.execute(
            select(Item, Item.embedding.l2_distance(q).label('distance')).order_by('distance').limit(k))],
            '<->', 'with distances')
        session.execute(text('SET LOCAL hnsw.ef_search = 150'))
        session.execute(text('SET LOCAL hnsw.iterative_scan = relaxed_order'))
        client.recall(lambda q, k: session.scalars(
            select(Item.id).where(Item.kind == 3).order_by(Item.embedding.l2_distance(q)).limit(k)),
            '<->', 'filter', 0.95, K, [kind == 3 for kind in client.kinds], False)
        near = session.scalars(select(Item.id).where(Item.embedding.l2_distance(rows[4]) < 1e-3)
                               .order_by(Item.embedding.l2_distance(rows[4])).limit(K)).all()
        client.same(near, [4], 'within a distance')
        session.commit()
    engine.dispose()
    client.scanned('alchemy_idx', 40, 'scans')

    async def asynchronous():
        engine = create_async_engine('postgresql+asyncpg:///postgres')
        async with AsyncSession(engine) as session:
            answers = {q.tobytes(): (await session.scalars(
                select(Item.id).order_by(Item.embedding.l2_distance(q)).limit(K))).all() for q in queries}
        client.recall(lambda q, k: answers[q.tobytes()], '<->', 'asyncpg engine')
        await engine.dispose()
    asyncio.run(asynchronous())
    client.scanned('alchemy_idx', 60, 'scans of the asyncpg engine')

    if 'halfvec_l2_ops' in CLASSES:
        half = cast(Item.embedding, HALFVEC(DIM))
        Index('alchemy_half', func.cast(Item.embedding, HALFVEC(DIM)).label('embedding'),
              postgresql_using='grnnd', postgresql_ops={'embedding': 'halfvec_l2_ops'}).create(engine)
        with Session(engine) as session:
            session.execute(text('SET LOCAL enable_seqscan = off'))
            client.recall(lambda q, k: session.scalars(select(Item.id).order_by(half.l2_distance(q)).limit(k)),
                          '<->', 'half precision', ordered=False)
        engine.dispose()
        client.scanned('alchemy_half', 20, 'scans by half precision')


client.run(main)
